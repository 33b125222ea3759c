"""Work and questions come in here: the facade, the job messages and the HTTP doors."""
