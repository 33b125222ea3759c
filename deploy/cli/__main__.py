"""`python -P -m deploy.cli`: runs `afterturn` without the working folder on the import path."""

from deploy.cli import main

main()
