"""The routers of the operators' API, which the API serves, and a command to itself."""

from producers.http.routes import embeddings, figures, operator, snapshots

OPERATOR_ROUTERS = (operator.router, figures.router, snapshots.router, embeddings.router)
