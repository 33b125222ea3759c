"""What a prompt asks of memory: a question that the service takes, or nothing."""

import re

#: Most characters of a question. Of a longer prompt the end and the beginning are asked with, in this order: a pasted
#: text stands before what is asked of it, or behind; and a sentence model reads the first few hundred words alone.
LONGEST_QUESTION = 4_000
LONGEST_END, LONGEST_BEGINNING = 800, 400
#: Fewest words of a command's arguments that may be a question.
FEWEST_ARGUMENTS = 3
#: Most words of a prompt that says no more than "go on" or "thank you so much for your help".
MOST_WORDS = 8

_WORD = re.compile(r"\w+(?:['\u2019-]\w+)*")
_ASKS = re.compile(r"[?\uff1f\u061f](?=[\s)\"'\u00bb\u201d]|\Z)")
_COMMAND = re.compile(r"/[\w:.-]+(?=\s|\Z)")
#: Words of assent, thanks and going on; a prompt of these alone asks nothing that memory could answer.
_ASSENT_WORDS = """
    a absolutely again agree agreed ahead all alright amazing and another appreciate appreciated approve approved as
    awesome beautiful brilliant bunch bye carry cheers confirm confirmed continue cool correct did do done exactly
    excellent fantastic fine first fixed for glad go going good got great haha hello help helped helpful hey hi hm hmm i
    is it it's job k keep kind lgtm lol looks lot love lovely man many mate maybe me million more much nah neat never
    next nice no none nope not of ok okay okey on one option perfect please proceed really resume retry right second
    see skip so solved sounds start stop super sure ta that that's the then third this thank thanks thumbs thx trick try
    ty understood undo up very wait way well wonderful work worked works wow y yay yea yeah yep yes you your yup
    ja nein gut genau weiter bitte danke dank dir vielen tausend schön mach mal stimmt passt richtig klar super okay los
    oui non merci beaucoup continue continuez vas-y daccord d'accord parfait bien
    si sí no gracias muchas mil vale claro sigue continúa adelante perfecto bueno
    sì grazie mille tante va bene avanti continua perfetto
    sim não obrigado obrigada muito continue certo beleza
    nee dank je wel bedankt goed prima verder hartelijk
    да нет спасибо большое хорошо ок давай дальше продолжай
    はい いいえ ありがとう 続けて お願いします 好 好的 是 是的 不 继续 可以 谢谢 对 行 네 아니요 감사합니다 계속
"""
_ASSENT = frozenset(_ASSENT_WORDS.split())


def find_question(prompt: str) -> str | None:
    """Return the question that a prompt is for memory; None where it plainly is none.

    None are: an empty prompt, a command to the agent's own interface (`/clear`, `!ls`), assent ("yes", "go on").
    """
    text = prompt.strip()
    if text.startswith("!"):
        return None
    if command := _COMMAND.match(text):
        text = text[command.end() :].strip()
        if len(_WORD.findall(text[:LONGEST_QUESTION])) < FEWEST_ARGUMENTS:
            return None
    return None if _says_nothing(text) else shorten_question(text)


def _says_nothing(text: str) -> bool:
    if len(text) > LONGEST_QUESTION:
        return False
    words = [word for word in _WORD.findall(text.lower()) if not word.isdigit()]
    return len(words) <= MOST_WORDS and _ASSENT.issuperset(words)


def shorten_question(text: str) -> str:
    """Return a question as it is asked: whole; of a long text what its end and its beginning ask.

    Those are their lines with a question, or the end and the beginning themselves, cut between words.
    """
    if len(text) <= LONGEST_QUESTION:
        return text
    end, beginning = text[-LONGEST_END:], text[:LONGEST_BEGINNING]
    end, beginning = end.partition(" ")[2] or end, beginning.rpartition(" ")[0] or beginning
    asking = [line.strip() for line in (*end.splitlines(), *beginning.splitlines()) if _ASKS.search(line)]
    return "\n".join(asking or (end, beginning))
