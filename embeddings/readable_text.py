"""Makes texts readable for a local model, which takes neither everything nor of any length."""


def clean_text(text: str, most: int) -> str:
    """Return the text cut to `most` characters, with lone surrogates, which cannot be encoded, replaced."""
    return text[:most].encode(errors="replace").decode()
