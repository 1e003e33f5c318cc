"""`python -m loam_lab.server`: what a client starts when it finds no server."""

import sys

from loam_lab.server.main import main

sys.exit(main())
