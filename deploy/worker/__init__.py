"""The worker process: `python -P -m deploy.worker`. Its components, its probes, its row in the list of workers."""
