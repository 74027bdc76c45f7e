"""``table``: one row a span, as CSV, or as Parquet with the extra ``spanport[parquet]``. Write only."""

from ..registry import Format

FORMATS = (
    Format(
        name="table",
        title="one row a span: CSV, or Parquet (-o NAME.parquet, needs spanport[parquet])",
        example="run.csv",
        recognised="write only",
        suffix=".csv",
        writer=f"{__name__}.write:write",
        no_schema="it is a table; the first line of the CSV names its columns",
    ),
)
