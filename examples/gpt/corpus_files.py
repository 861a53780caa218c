"""Which files make up the text, apart from corpus.py so that reading them costs no torch import."""

import os

# What a folder contributes; a file that is named itself is read whatever its suffix.
TEXT_SUFFIXES = (".cc", ".h", ".md", ".py", ".sh", ".sql", ".tsv", ".txt", ".yaml")


def text_files(paths):
    """Returns the files that `paths` (files and folders) stand for, folders in sorted order."""
    files = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "__")))
            files += [os.path.join(folder, n) for n in sorted(names) if n.endswith(TEXT_SUFFIXES)]
    return files


def read_text(paths):
    """Returns the bytes of all files, one after the other."""
    pieces = []
    for path in text_files(paths):
        with open(path, "rb") as file:
            pieces.append(file.read())
    return b"\n".join(pieces)
