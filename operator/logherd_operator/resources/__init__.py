"""One pure builder per thing that a group needs: configuration documents now, Kubernetes objects later.

Reads only the spec and what it is told; no files, no processes, no clock."""
