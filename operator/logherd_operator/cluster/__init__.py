"""Between Kubernetes' objects and the planner: pods, claims and StatefulSets as observed values, actions as calls to
the API server, to controllers or to brokers.

Pure: documents in, documents out. Nothing here connects to anything, and it knows no client library."""
