"""Iceberg tables: the embedded catalog with its commit log, what a table is now, and its first rows.

`catalog` is a process of its own; everything else asks a catalog over HTTP, so that another one can take its place.
Importing a module of this room imports nothing heavy: pyiceberg and duckdb are loaded when they are used.
"""
