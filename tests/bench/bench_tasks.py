"""The tasks of the benchmarks."""

import time

import loam_lab as loam


@loam.task
def nothing():
    return None


@loam.task
def note_start(path, number, sent):
    waited = time.time() - sent
    with open(path, "a") as file:
        file.write(f"{number} {waited}\n")
