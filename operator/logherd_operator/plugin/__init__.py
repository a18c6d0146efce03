"""`kubectl logherd`: what a person asks and orders of groups in a cluster, with that person's own rights.

Orders are annotations and fields of the BrokerGroup, which the operator carries out; nothing here acts on pods.
"""
