"""`python -P -m deploy.cli`: the same as `afterturn`, never with the working folder on the import path."""

from deploy.cli import main

main()
