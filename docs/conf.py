"""Configuration of the documentation site. ``python -m docs`` builds it."""

from __future__ import annotations

project = "weft"
author = "The weft developers"
project_copyright = "the weft developers"

extensions = ["myst_nb", "sphinx_design"]
exclude_patterns = ["_build", "README.md"]
root_doc = "index"

# Code blocks without a language are commands and outputs.
highlight_language = "none"

# Every reference must lead somewhere.
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_block"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
nb_execution_timeout = 600
nb_execution_raise_on_error = True
nb_merge_streams = True

html_theme = "pydata_sphinx_theme"
html_title = "weft"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_sidebars: dict[str, list[str]] = {"index": [], "start": [], "measured": []}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
