"""The Jupyter server's half of the front end: it authenticates, authorises and forwards, and decides nothing.

The only place that imports jupyter_server; kernels and commands never import it.
"""
