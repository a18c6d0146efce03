"""Beside each controller: keeps the endpoint of the group's leader (H17), from what the leading controller confirms.

Small on purpose: the standard library, one EndpointSlice, one controller. It never elects, never asks the operator, and
knows no other object of the API server.
"""
