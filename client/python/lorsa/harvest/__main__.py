"""`python -m lorsa.harvest` is `lorsa-harvest`."""

import sys

from lorsa.harvest.command import main

sys.exit(main())
