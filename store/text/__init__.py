"""Pure rules about texts: index terms, languages, times, secrets, and the extraction rules."""
