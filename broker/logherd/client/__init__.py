"""A native producer, consumer and admin client over net, for the command line, tests and bench.

Knows the wire and the network; knows nothing of the broker's inside."""
