"""The log's vocabulary: event types, aggregate ids and the CloudEvents envelope."""
