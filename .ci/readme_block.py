"""Print the code block of a Markdown file that follows the comment ``<!-- NAME -->``."""

import re
import sys
from pathlib import Path

text = Path(sys.argv[1]).read_text(encoding="utf-8")
found = re.search(rf"<!-- {re.escape(sys.argv[2])} -->\n```\w*\n(.*?)```", text, re.DOTALL)
if found is None:
    sys.exit(f"{sys.argv[1]} has no block <!-- {sys.argv[2]} -->")
print(found[1], end="")
