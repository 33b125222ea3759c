"""A worker process: `python -P -m deploy.worker`. What it is made of, its probes, its row in the list of workers."""
