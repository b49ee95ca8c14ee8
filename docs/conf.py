"""How Sphinx builds the site, with `make docs`; no network is needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from gappletron import __version__  # noqa: E402

project = "Gappletron"
author = "the authors of Gappletron"
version = release = __version__
html_title = f"Gappletron {__version__}"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.intersphinx",
    "sphinx_copybutton",
    "sitepages.navigation",
    "sitepages.mathml",
    "sitepages.letters",
    "sitepages.inserts",
    "sitepages.names",
    "sitepages.reference",
]
root_doc = "index"
default_role = "literal"
exclude_patterns = ["_build", "sitepages"]
templates_path: list[str] = []

myst_enable_extensions = ["dollarmath", "deflist", "attrs_inline"]
myst_dmath_double_inline = False
myst_heading_anchors = 4

autodoc_typehints = "none"  # the signatures of types are long; docstrings say what an argument is
autodoc_member_order = "bysource"
add_module_names = False
python_maximum_signature_line_length = 88
pygments_style, pygments_dark_style = "tango", "github-dark"

# Links to the documentation of other projects need their inventories: `sphinx-build -t online`.
intersphinx_mapping: dict[str, Any] = {}
if tags.has("online"):  # type: ignore[name-defined] # noqa: F821
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = False
html_show_sphinx = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
