#!/usr/bin/env python3
"""Runs the README's sessions for real and puts what they print, and the files they leave, into the
documents. Needs the program on PATH, curl, openssl, and /tmp/try free. Read the diff before you keep it.
With `accusation` or `ping-req` it prints that body for the federation under /tmp/try, as the anchor sends it.
"""
import base64, hashlib, hmac, json, re, secrets, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
TRY = Path("/tmp/try")
MARK = "\x1e"
# After the README's sessions, before their clean-up: what the examples of formats.md show beside.
MORE = r"""
crowny-fed invite gw5 --service api --dir /tmp/try/fed > /tmp/try/invitation
bash fixtures/register.sh /tmp/try/gw5 http://127.0.0.1:18005 api http://127.0.0.1:18005 < /tmp/try/invitation > /tmp/try/answers
crowny-fed invite gw6 --alg hmac-sha256 --dir /tmp/try/fed | crowny-fed join --url http://127.0.0.1:18006 --dir /tmp/try/gw6 -
crowny-fed drain --off --dir /tmp/try/gw6
crowny-fed leave --dir /tmp/try/gw6
crowny-fed grant edge gw5 --dir /tmp/try/fed
crowny-fed rotate-key --log --dir /tmp/try/fed
sed -i '1i suspicion_ticks = 1\nreap_ticks = 1' /tmp/try/fed/crowny-fed.toml
for tick in 1 2 3; do crowny-fed tick --dir /tmp/try/fed; done
sed -i 1,2d /tmp/try/fed/crowny-fed.toml
kill %2
crowny-fed tick --dir /tmp/try/fed
curl -s -H 'Content-Type: application/json' --data-binary @/tmp/try/gw5/register.json http://127.0.0.1:18000/register > /tmp/try/refused
curl -s http://127.0.0.1:18000/q/health > /tmp/try/health
curl -s 'http://127.0.0.1:18000/q/health?c=00112233445566778899aabbccddeeff' > /tmp/try/vouched
python3 tests/docs/regenerate.py accusation > /tmp/try/accusation
curl -s -H 'Content-Type: application/json' --data-binary @/tmp/try/accusation http://127.0.0.1:18004/q/health > /tmp/try/refuted
curl -s -H 'Accept: application/json' http://127.0.0.1:18000/q/peers > /tmp/try/peers
curl -s http://127.0.0.1:18000/head > /tmp/try/head
curl -s 'http://127.0.0.1:18000/proof?node=gw5' > /tmp/try/proof
curl -s 'http://127.0.0.1:18000/consistency?old=8&new=18' > /tmp/try/consistency
after() { tail -n $1 /tmp/try/fed/nodes.ndjson | head -n 1 | sed 's/.*"prev":"\([0-9a-f]*\)".*/\1/'; }
curl -s "http://127.0.0.1:18000/sync?size=$(($(wc -l < /tmp/try/fed/nodes.ndjson) - 2))&since=$(after 2)" > /tmp/try/page
curl -s "http://127.0.0.1:18000/sync?size=20&since=$(after 1)&locator=20.$(after 1),16.$(sed -n 17p /tmp/try/fed/nodes.ndjson | sed 's/.*"prev":"\([0-9a-f]*\)".*/\1/')" > /tmp/try/unknown
curl -s http://127.0.0.1:18000/verify > /tmp/try/verify
cp -r /tmp/try/fed /tmp/try/kept
echo 'interval = "0"' > /tmp/try/gw4/crowny-fed.toml
for tick in 1 2 3 4 5 6 7; do crowny-fed tick --dir /tmp/try/gw4; done
cp /tmp/try/gw4/tick.json /tmp/try/gw4.tick.json
crowny-fed serve --listen 127.0.0.1:18002 --dir /tmp/try/gw2 &
crowny-fed tick --dir /tmp/try/gw4
kill $!
cp /tmp/try/fed/observations/gw4.json /tmp/try/observe
python3 tests/docs/regenerate.py ping-req > /tmp/try/ping-req
curl -s -H 'Content-Type: application/json' --data-binary @/tmp/try/ping-req http://127.0.0.1:18004/q/ping-req > /tmp/try/helped
"""


def session(readme):
    """The README's commands in order, up to the installation."""
    part = readme.split("\n## A session to paste")[1].split("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", part, re.S)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def run(commands):
    """What each command prints, standard error included."""
    script = "exec 2>&1; set -m\n"
    for number, command in enumerate(commands):
        wait = "sleep 1\n" if command.endswith("&") else ""
        script += f"printf '{MARK}{number}\\n'\n{command}\n{wait}"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=ROOT)
    printed = {}
    for part in ran.stdout.split(MARK)[1:]:
        number, _, text = part.partition("\n")
        kept = [line for line in text.splitlines() if not re.match(r"\[\d+\][+-]? ", line)]
        printed[int(number)] = "".join(f"{line}\n" for line in kept)
    return printed


def put_printed(document, printed):
    """Replaces the output below each command of the sessions."""
    head, rest = document.split("\n## A session to paste" if "## A session" in document else "\n## 붙여 넣어 볼 세션", 1)
    part, tail = rest.split("\n## ", 1)
    number = 0

    def block(match):
        nonlocal number
        text = ""
        for line in match.group(1).splitlines():
            if line.startswith("$ "):
                text += f"{line}\n{printed[number]}"
                number += 1
        return f"```console\n{text}```"

    title = document[len(head):len(document) - len(rest)]
    return head + title + re.sub(r"```console\n(.*?)```", block, part, flags=re.S) + "\n## " + tail


def put_examples(document, examples):
    """Replaces the fenced blocks below each heading, in order."""
    examples = {name: list(blocks) for name, blocks in examples.items()}
    kept, blocks, fenced = [], [], False
    for line in document.splitlines():
        if line.startswith("```"):
            fenced = not fenced
            kept.append(line)
            if fenced and blocks:
                kept.extend(blocks.pop(0).rstrip("\n").split("\n"))
                replaced = True
            elif fenced:
                replaced = False
        elif not fenced or not replaced:
            kept.append(line)
            if not fenced and line.startswith("#"):
                assert not blocks, f"too few blocks above {line}"
                blocks = next((found for name, found in examples.items() if name in line), [])
    return "\n".join(kept) + "\n"


def wrapped(hexadecimal):
    return "".join(hexadecimal[at:at + 64] + "\n" for at in range(0, len(hexadecimal), 64))


def accusation():
    """What the anchor posts to gw4 while it doubts it."""
    lines = (TRY / "fed/nodes.ndjson").read_text().splitlines()

    def doubts_gw4(line):
        payload = json.loads(json.loads(line)["payload"])
        return payload["node"] == "gw4" and payload["to"] == "suspect" and "service" not in payload

    line = next(line for line in lines if '"type":"verdict"' in line and doubts_gw4(line))
    command = ["crowny-fed", "proof", str(json.loads(line)["seq"]), "--dir", str(TRY / "fed")]
    proof = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    told = {"ts": int(time.time()), "c": "00112233445566778899aabbccddeeff", "line": line, "proof": proof}
    print(json.dumps(told, separators=(",", ":")))


def ping_req():
    """What the anchor posts to gw4 when gw5 does not answer it."""
    said = {"c": "00112233445566778899aabbccddeeff", "mode": "ed25519", "node": "anchor",
            "nonce": secrets.token_hex(16), "origin": "fed.example.org/try", "subject": "gw5", "ts": int(time.time())}
    payload = json.dumps(said, separators=(",", ":"))
    media = "application/vnd.crowny-fed.ping-req.v1+json"
    (TRY / "signed").write_text(f"DSSEv1 {len(media)} {media} {len(payload)} {payload}")
    seed = bytes.fromhex((TRY / "fed/keys/node.key").read_text())
    (TRY / "key.der").write_bytes(bytes.fromhex("302e020100300506032b657004220420") + seed)
    command = ["openssl", "pkeyutl", "-sign", "-rawin", "-keyform", "DER", "-inkey", TRY / "key.der", "-in", TRY / "signed"]
    sig = base64.b64encode(subprocess.run(command, check=True, capture_output=True).stdout).decode()
    told = {name: said[name] for name in ["mode", "node", "nonce"]} | {"payload": payload, "sig": sig, "ts": said["ts"]}
    print(json.dumps(told, separators=(",", ":")))


def examples():
    text = lambda path: (TRY / path).read_text()
    line = lambda path: text(path).rstrip("\n") + "\n"
    kept = {name: [text(f"kept/{name}")] for name in [
        "피어목록.psv", "피어상태.psv", "federated-routes.txt", "freshness.json", "nodes.ndjson", "head.txt",
        "federation-root.txt", "tick.json", "invites.ndjson", "node-keys.ndjson", "used-nonces.log"]}
    for name in ["state/committed.json", "snapshot.json"]:
        kept[name] = [line(f"kept/{name}")]
    kept["self.json"] = [text("kept/self.json"), text("gw3/self.json")]
    kept["tick.json"].append(text("gw4.tick.json"))
    drain = next(entry for entry in map(json.loads, text("kept/nodes.ndjson").splitlines()) if entry["type"] == "drain")
    media = "application/vnd.crowny-fed.drain.v1+json"
    pae = f"DSSEv1 {len(media)} {media} {len(drain['payload'].encode())} {drain['payload']}"
    invitation = text("invitation").strip()
    invited = json.loads(base64.urlsafe_b64decode(invitation[5:] + "=="))
    secret = base64.urlsafe_b64decode(invited["secret"] + "==")
    named = "crowny-fed/bootstrap/v1" + invited["vkey"].split("+")[0] + invited["node"]
    answers = text("answers").splitlines()
    told = json.loads(json.loads(text("observe"))["payload"])
    return {
        **kept,
        "What is signed": [pae + "\n", wrapped(pae.encode().hex())],
        "`POST /register`": [line("gw5/register.json"), answers[1] + "\n"],
        "`POST /enroll`": [
            invitation + "\n", json.dumps(invited, separators=(",", ":")) + "\n",
            hmac.new(secret, named.encode(), hashlib.sha256).hexdigest() + "\n",
            line("gw5/enroll.json"), answers[0] + "\n"],
        "`decisions.ndjson`": [text("gw4/decisions.ndjson")], "`observations/`": [line("observe")],
        "`POST /observe`": [line("observe"), json.dumps({"tick": told["tick"]}, separators=(",", ":")) + "\n"],
        "`GET /sync`": [text("page"), line("unknown")],
        "Refusals": [line("refused")], "`GET /q/health`": [line("health"), line("vouched")],
        "`POST /q/health`": [line("accusation"), line("refuted")],
        "`POST /q/ping-req`": [line("ping-req"), line("helped")], "`GET /q/peers`": [line("peers")],
        "`GET /head`": [line("head")], "`GET /proof`": [line("proof")],
        "`GET /consistency`": [line("consistency")], "`GET /verify`": [line("verify")],
    }


def main():
    if TRY.exists():
        sys.exit(f"{TRY} is in the way")
    english, korean, formats = (ROOT / name for name in ["README.md", "README.ko.md", "docs/formats.md"])
    commands = session(english.read_text())
    end = next(at for at in range(len(commands) - 1, 0, -1) if commands[at].startswith("kill "))
    more = MORE.strip().splitlines()
    printed = run(commands[:end] + more + commands[end:-1])
    for at in range(end, end + len(more)):
        print(f"$ {more[at - end]}\n{printed.pop(at)}", end="")
    told = dict(enumerate(printed[at] for at in sorted(printed)))
    told[end] = told[len(commands) - 1] = ""  # the clean-up, which here has one job less to end
    formats.write_text(put_examples(formats.read_text(), examples()))
    for readme in [english, korean]:
        readme.write_text(put_printed(readme.read_text(), told))
    subprocess.run(["bash", "-c", commands[-1]], check=True)


{"accusation": accusation, "ping-req": ping_req}[sys.argv[1]]() if sys.argv[1:] else main()
