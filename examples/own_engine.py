"""An engine of your own: a chat service that writes text and knows nothing of constraints.

Without an argument, a script plays the service. With the URL of an OpenAI-compatible server and the
name of a model there, that server is asked: python examples/own_engine.py http://host:8000/v1 NAME
"""

import asyncio
import json
import re
import sys
from urllib.request import Request as HttpRequest
from urllib.request import urlopen

from own_domain import Hanoi

from llm_planning import plan
from llm_serving.engine import Engine
from llm_serving.errors import ServingError
from llm_serving.request import Completion, EncodedPrompt, ModelIdentity, Usage


class ChatEngine(Engine):
    """Answers from a chat service: a coroutine function from messages to a text.

    Planners want an answer of a given language, such as one of a list of labels. The service is
    asked until it says something that holds such an answer. It has neither log-probabilities nor
    vectors.
    """

    abilities = frozenset({"regex"})

    def __init__(self, service, name="chat service"):
        self.identity = ModelIdentity(name=name, revision="unknown", dtype="unknown")
        self._service = service

    def encode(self, prompt):
        """Stands in for the service's tokenizer: a token for every byte."""
        texts = [prompt] if isinstance(prompt, str) else [message.content for message in prompt]
        return EncodedPrompt(tuple("\n".join(texts).encode()))

    def decode(self, token_ids):
        """The inverse."""
        return bytes(token_ids).decode(errors="replace")

    async def generate(self, request):
        """Asks up to three times; the last fitting piece of a reply is the answer."""
        chat = [{"role": message.role, "content": message.content} for message in request.prompt]
        for _ in range(3):
            reply = await self._service(chat)
            language = request.constraint.regex if request.constraint else r"(?s:.+)"
            if fitting := list(re.finditer(rf"(?<!\w)(?:{language})(?!\w)", reply)):
                text = fitting[-1].group()
                return Completion(text=text, token_ids=(), finish="stop", usage=Usage(calls=1))
        raise ServingError(f"no answer to {request.role!r} is in {reply!r}")


async def scripted_service(chat):
    """Plays a service that wants every disc on peg C at once, and talks too much."""
    listed = re.findall(r"^(\w+): (move .+)$", chat[-1]["content"], re.MULTILINE)
    label, action = next((choice for choice in listed if choice[1].endswith("C")), listed[0])
    return f"I would {action}. So my answer is {label}."


def http_service(url, model):
    """A service behind OpenAI's chat API."""

    def post(chat):
        body = json.dumps({"model": model, "messages": chat}).encode()
        call = HttpRequest(f"{url}/chat/completions", body, {"Content-Type": "application/json"})
        with urlopen(call, timeout=60) as response:
            return json.load(response)["choices"][0]["message"]["content"]

    async def ask(chat):
        return await asyncio.to_thread(post, chat)

    return ask


if __name__ == "__main__":
    service = http_service(*sys.argv[1:]) if sys.argv[1:] else scripted_service
    outcome = asyncio.run(
        plan("puct", Hanoi(discs=3), engine=ChatEngine(service), settings={"prior": "sample"})
    )
    print(outcome.text)
