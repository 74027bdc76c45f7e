"""One self-contained HTML page that shows runs: a tree with a waterfall, and what each span holds.

`pack` makes compressed blocks of a trace, `document` puts them into one file with the page's own script and style, which are the plain files
beside this module (``page.html``, ``page.css``, ``*.js``): no build step, no library. The page asks the network for nothing. Knows the
model, never a format.
"""

from .document import NothingToShow, view, write

__all__ = ["NothingToShow", "view", "write"]
