"""How it runs: settings, command line, API and worker entry points, embedded servers."""
