"""`python -m loam_lab.worker`: a worker of the embedded server."""

import sys

from loam_lab.worker.loop import main

sys.exit(main())
