"""The routers of the operators' API, which the API serves, and a command to itself."""

from producers.http.routes import embeddings, figures, letters, operator, snapshots

OPERATOR_ROUTERS = (operator.router, letters.router, figures.router, snapshots.router, embeddings.router)
