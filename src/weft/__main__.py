"""``python -m weft``: the command line."""

import sys

from weft.dsl.cli import main

sys.exit(main())
