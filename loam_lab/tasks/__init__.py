"""Tasks: plain functions that run in workers. `import loam_lab as loam` has the words: `@loam.task`, `loam.current()`.

The rules are in core/tasks.py; here is what talks to a server, or runs in the process of a worker.
"""
