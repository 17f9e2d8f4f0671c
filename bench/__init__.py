"""Programs that run Firn beside its peers on the same work: `python -m bench`, or `make bench`.

They print ratios, requests and bytes, and write JSON to `bench/results`. Nothing here asserts a time: figures of
one run are compared with one another, never with those of another day. What each program does and needs is in
README.md.
"""

from firn.lake.definition import definition

# What is measured here is what a program asks for: its tables have neither rows in logs nor a keeper by themselves.
definition.NEW_TABLES.clear()
