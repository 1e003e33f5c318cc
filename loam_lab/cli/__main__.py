"""`python -m loam_lab.cli`: the command where no script is on the path."""

from loam_lab.cli.main import main

main()
