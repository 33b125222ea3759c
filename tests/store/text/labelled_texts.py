"""Texts of which a person has said what in them is a secret, and texts in which nothing is.

A `{...}` of a template stands for the secret itself, made of the alphabet and length that the form has: no real key is
here. Each template is filled several times.
"""

import base64
import string
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

ALNUM = string.ascii_letters + string.digits
BASE64 = ALNUM + "+/"
URL64 = ALNUM + "-_"
UPPER = string.ascii_uppercase + string.digits
HEX = "0123456789abcdef"

#: Of each kind: how its text runs, the alphabet of the secret, and how long it is.
FORMS: dict[str, list[tuple[str, str, int]]] = {
    "API_KEY": [
        ("export OPENAI_API_KEY={}", ALNUM, 40),
        ("set `weather_api_key={}` and restart", HEX, 32),
        ('STRIPE_API_KEY="{}"', ALNUM, 24),
        ("MY_API_KEY = '{}' # do not commit", URL64, 20),
        ('{{"api_key": "{}"}}', ALNUM, 32),
        ("curl 'https://api.example.com/v1/x?api_key={}&q=1'", ALNUM, 28),
    ],
    "TOKEN": [
        ("CI_DEPLOY_TOKEN={}", ALNUM, 26),
        ("the file says access_token={} and nothing else", URL64, 36),
        ('"refresh_token": "{}"', URL64, 44),
        ("npm config set //r.example/:_token={}", ALNUM, 30),
    ],
    "SECRET": [
        ("WEBHOOK_SECRET={}", HEX, 32),
        ("client_secret = {}", URL64, 30),
        ("AWS_SECRET_ACCESS_KEY={}", BASE64, 40),
        ("app_secret_key: '{}'", ALNUM, 50),
    ],
    "PASSWORD": [("DB_PASSWORD={}", ALNUM, 14), ("admin_password: '{}'", ALNUM, 16)],
    "BEARER_TOKEN": [
        ("Authorization: Bearer {}", URL64, 43),
        ("curl -H 'authorization: bearer {}' https://x", ALNUM, 32),
        ("he sent Bearer {} in clear", URL64, 40),
        ("Authorization: Basic {}", ALNUM, 24),
    ],
    "DB_URL_WITH_CREDENTIALS": [
        ("DATABASE_URL=postgres://app:{}@db.internal:5432/app", ALNUM, 20),
        ("postgresql+asyncpg://app:{}@10.0.0.7/app?sslmode=require", ALNUM, 16),
        ("mysql://root:{}@localhost/shop", ALNUM, 12),
        ("use redis://:{}@cache:6379/0 please", ALNUM, 24),
        ("mongodb+srv://u:{}@cluster0.example.net/?w=majority", ALNUM, 18),
        ("amqp://guest:{}@mq:5672/%2f", ALNUM, 18),
    ],
    "URL_WITH_CREDENTIALS": [("git clone https://ci:{}@git.example.com/a/b.git", ALNUM, 20)],
    "GITHUB_TOKEN": [
        ("ghp_{}", ALNUM, 36),
        ("gho_{} expired", ALNUM, 36),
        ("the token is ghs_{}.", ALNUM, 36),
        ("(ghu_{})", ALNUM, 36),
        ("ghr_{},", ALNUM, 16),
        ("github_pat_{}", ALNUM + "_", 70),
    ],
    "VC_TOKEN": [("vc_{}", ALNUM, 24)],
    "AWS_ACCESS_KEY_ID": [("AKIA{}", UPPER, 16), ("aws_access_key_id = AKIA{}", UPPER, 16)],
    "PPLX_TOKEN": [("pplx-{}", ALNUM, 48), ("pplx-{}", ALNUM, 20)],
    "SK_TOKEN": [
        ("sk-{}", ALNUM, 48),
        ("sk-{}", string.ascii_lowercase, 26),
        ("sk-proj-{}", URL64, 60),
        ("my key: sk-ant-api03-{}.", URL64, 90),
        ("sk_live_{}", ALNUM, 24),
    ],
    "CTX7_TOKEN": [("ctx7_{}", ALNUM, 24)],
    "SLACK_TOKEN": [("xoxb-{}", string.digits + "-" + ALNUM, 50)],
    "GITLAB_TOKEN": [("glpat-{}", URL64, 20)],
    "GOOGLE_API_KEY": [("AIza{}", URL64, 35)],
    "HF_TOKEN": [("hf_{}", ALNUM, 34)],
    "NPM_TOKEN": [("npm_{}", ALNUM, 36)],
    "JWT": [("eyJhbGciOiJIUzI1NiJ9.eyJ{}.c2lnbmF0dXJlLW9mLWl0", URL64, 60)],
    "AFTERTURN_KEY": [
        ("my key is at_{}", URL64, 49),
        ("op_{} was printed once", URL64, 49),
        ("uk_{}", URL64, 49),
        ("rt_{} ends the turn", URL64, 64),
    ],
    "WEBHOOK_URL": [
        ("https://hooks.slack.com/services/T0000000/B0000000/{}", ALNUM, 24),
        ("https://discord.com/api/webhooks/123456789012345678/{}", URL64, 68),
    ],
    "GITLAB_PIPELINE": [("glptt-{}", HEX, 40), ("gldt-{}", URL64, 20), ("glrt-{}", URL64, 20)],
    "SLACK_APP": [("xapp-1-A0123-456-{}", HEX, 64), ("xoxe.xoxp-1-{}", ALNUM, 150)],
    "STRIPE_SECRET": [("whsec_{}", ALNUM, 32)],
    "GOOGLE_TOKEN": [("ya29.{}", URL64, 120), ("GOCSPX-{}", URL64, 28), ("1//0{}", URL64, 60)],
    "AZURE_SECRET": [
        ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey={}==;EndpointSuffix=x", BASE64, 86),
        ("https://a.blob.core.windows.net/c?sv=2022-11-02&se=2026&sig={}%3D", ALNUM, 43),
        ("Endpoint=sb://x.servicebus.windows.net/;SharedAccessKey={}=", BASE64, 43),
    ],
    "AWS_SESSION_TOKEN": [("it is IQoJb3JpZ2lu{}", BASE64, 300), ("FwoGZXIvYXdz{}", BASE64, 200)],
    "PYPI_TOKEN": [("pypi-AgEIcHlwaS5vcmc{}", URL64, 150)],
    "DIGITALOCEAN_TOKEN": [("dop_v1_{}", HEX, 64)],
    "SENDGRID_KEY": [("SG.ngeVfQFYQlKU0ufo8x5d1A.{}", URL64, 43)],
    "TELEGRAM_TOKEN": [("bot 123456789:AA{}", URL64, 33)],
    "DISCORD_TOKEN": [("MTAxMDEwMTAxMDEwMTAxMDEw.GAbCdE.{}", URL64, 38)],
    "DATABRICKS_TOKEN": [("dapi{}", HEX, 32)],
    "VAULT_TOKEN": [("hvs.{}", URL64, 90)],
    "SHOPIFY_TOKEN": [("shpat_{}", HEX, 32)],
    "LINEAR_KEY": [("lin_api_{}", ALNUM, 40)],
    "AGE_KEY": [("AGE-SECRET-KEY-1{}", UPPER, 58)],
    "OTHERS": [
        ("tskey-auth-{}", ALNUM, 30),
        ("dckr_pat_{}", URL64, 27),
        ("gsk_{}", ALNUM, 52),
        ("glsa_{}_0123abcd", ALNUM, 32),
        ("sbp_{}", HEX, 40),
        ("PMAK-0123456789abcdef01234567-{}", HEX, 34),
        ("ntn_{}", ALNUM, 46),
        ("lsv2_pt_{}_0123456789", HEX, 32),
        ("sntryu_{}", HEX, 64),
        ("figd_{}", URL64, 43),
    ],
    "PASSWORDS": [
        ('{{"user": "ann", "password": "{}"}}', string.ascii_lowercase, 8),
        ('{{\\"password\\": \\"{}\\"}}', ALNUM, 10),
        ("password={}1", ALNUM, 11),
        ("Server=db;User Id=sa;Password={}9!;", ALNUM, 10),
        ("PGPASSWORD={}7 psql", ALNUM, 10),
        ("my password is {}4x", ALNUM, 8),
        ("curl -u ann:{} https://x", ALNUM, 14),
        ("mysqldump --password={}8", ALNUM, 12),
        ("<password>{}</password>", ALNUM, 12),
        ('"clientSecret": "{}0aB"', ALNUM, 30),
        ('{{"accessToken": "{}0aB"}}', ALNUM, 30),
        ('{{"apiKey": "{}0aB"}}', ALNUM, 30),
        ("X-Api-Key: {}0a", ALNUM, 30),
        ("private_key: {}0a", ALNUM, 30),
        ("token={}0aB", ALNUM, 30),
    ],
    "COOKIE": [
        ("Cookie: theme=dark; session={}0a", ALNUM, 32),
        ("Set-Cookie: sid={}0a; Path=/; HttpOnly", ALNUM, 32),
        ("PHPSESSID={}0a", ALNUM, 26),
    ],
    "OF_SERVICES": [
        ("AQ.{}", URL64, 50),
        ("nvapi-{}", URL64, 64),
        ("fc-{}", HEX, 32),
        ("e2b_{}", HEX, 40),
        ("jina_{}0a", ALNUM, 60),
        ("tgp_v1_{}0a", URL64, 43),
        ("rpa_{}0", UPPER, 42),
        ("sk_{}", HEX, 48),
        ("llx-{}", ALNUM, 48),
        ("wandb_v1_{}0a", ALNUM, 70),
        ("re_AbCdEf01_{}", ALNUM, 24),
        ("xkeysib-{}-AbCdEf0123456789", HEX, 64),
        ("tr_prod_{}0a", ALNUM, 22),
        ("signkey-prod-{}", HEX, 64),
        ("vck_{}0a", ALNUM, 54),
        ("FlyV1 fm2_{}0a", BASE64, 120),
        ("rnd_{}0a", ALNUM, 30),
        ("dt0c01.ST2EY72KQINMH574WMNVI7YN.{}", UPPER, 64),
        ("xoxd-{}0a", ALNUM, 120),
        ("CFPAT-{}", URL64, 43),
        ("sl.u.{}0a", URL64, 130),
        ("ABSK{}0a", BASE64, 128),
        ("polar_oat_{}0a", ALNUM, 41),
        ("aivenv1_{}0a", BASE64, 64),
        ("sk.eyJ1Ijoi{}.AbCdEf0123456789AbCdEf", ALNUM, 60),
        ("GR1348941{}", URL64, 20),
        ("cfut_{}0123abcd", ALNUM, 40),
        ("mdb_sa_sk_{}0a", URL64, 38),
        ("sha256~{}", URL64, 43),
        ("{}JQQJ99ALACYeBjFXJ3w3AAABACOG", ALNUM, 50),
        ("AGE-SECRET-KEY-PQ-1{}", UPPER, 58),
        ("https://{}0a@github.com/a/b.git", ALNUM, 38),
        ("neo4j+s://neo4j:{}@x.databases.neo4j.io", ALNUM, 14),
        ("nats://app:{}@bus:4222", ALNUM, 14),
        ("jdbc:oracle:thin:app/{}@db:1521:x", ALNUM, 14),
        ("db.internal:5432:app:ann:{}0a", ALNUM, 12),
    ],
    "ASSIGNED": [
        ('{{"apiToken": "{}0aB"}}', ALNUM, 30),
        ('{{"webhookSecret":"{}0aB"}}', ALNUM, 12),
        ('{{"password":\n  "{}0aB"}}', ALNUM, 12),
        ('{{"name":"DB_PASSWORD","value":"{}0aB"}}', ALNUM, 12),
        ("- name: API_KEY\n  value: {}0aB", ALNUM, 12),
        ('<add key="ApiKey" value="{}0aB" />', ALNUM, 12),
        ("define('DB_PASSWORD', '{}0aB');", ALNUM, 12),
        ("'password' => '{}0aB',", ALNUM, 12),
        ('password := "{}0aB"', ALNUM, 12),
        ("password: |\n  {}0aB", ALNUM, 12),
        ("ALTER USER ann WITH PASSWORD '{}0aB';", ALNUM, 12),
        ("CREATE USER ann IDENTIFIED BY '{}0aB'", ALNUM, 12),
        ("SECRET_KEY_BASE={}0aB", ALNUM, 30),
        ("GH_PAT={}0aB", ALNUM, 30),
        ('{{"auths":{{"r.example":{{"auth":"{}0aB="}}}}}}', ALNUM, 24),
        ("Ocp-Apim-Subscription-Key: {}0aB", ALNUM, 30),
        ("https://maps.example/api?key={}0aB&t=1", ALNUM, 30),
        ("https://s3.example/f?X-Amz-Signature={}", HEX, 64),
        ("curl -uann:{}0aB https://x", ALNUM, 12),
        ("curl --proxy-user ann:{}0aB -x p:1 https://x", ALNUM, 12),
        ("sshpass -p '{}0aB' ssh a@b", ALNUM, 12),
        ("mysql -u root -p{}0aB shop", ALNUM, 12),
        ("redis-cli -h x -a {}0aB ping", ALNUM, 12),
        ("docker login -u ann -p {}0aB r.example", ALNUM, 12),
        ("echo 'ann:{}0aB' | chpasswd", ALNUM, 12),
        ("echo {}0aB | gh auth login --with-token", ALNUM, 30),
        ("machine x.example login ann password {}0aB", ALNUM, 12),
        ("Authorization: ApiKey {}0aB", ALNUM, 30),
        ("Authorization: {}0aB", ALNUM, 30),
        ('Authorization: Digest username="a", nonce="n", response="{}"', HEX, 32),
        ("Authorization: PVEAPIToken=root@pam!mon={}0aB", ALNUM, 30),
        ('{{"kty":"EC","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","d":"{}0aB"}}', ALNUM, 40),
        ("&quot;password&quot;:&quot;{}0aB&quot;", ALNUM, 12),
        ("user%3Dann%26password%3D{}0aB%26x%3D1", ALNUM, 12),
    ],
    "BASE64_BLOB": [
        ("the session is {}", BASE64, 64),
        ("blob: {}==", BASE64, 86),
        ("key {} of the box", URL64, 43),
        ("https://meet.example.com/join/{}", ALNUM, 48),
    ],
}
PER_FORM = 6

#: Private keys, whole, cut off, and within JSON; `{}` is the key's body.
KEY_FILES = [
    ("OPENSSH_PRIVATE_KEY", "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----"),
    ("PRIVATE_KEY", "see\n-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\nthere"),
    ("PRIVATE_KEY", "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----"),
    ("PRIVATE_KEY", "-----BEGIN EC PRIVATE KEY-----\n{}\n"),
    ("PRIVATE_KEY", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{}\n-----END RSA PRIVATE KEY-----"),
    ("PRIVATE_KEY", "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n-----END PGP PRIVATE KEY BLOCK-----"),
    ("PRIVATE_KEY", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: GnuPG v2\nComment: x\n\n{}\n"),
    ("PRIVATE_KEY", "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----"),
    ("PRIVATE_KEY", "[...] PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----"),
    ("PRIVATE_KEY", "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 12\n{}\nPrivate-MAC: 0123456789abcdef"),
    ("PRIVATE_KEY", "-----BEGIN OpenVPN Static key V1-----\n{}\n-----END OpenVPN Static key V1-----"),
    ("PRIVATE_KEY", "untrusted comment: minisign encrypted secret key\n{}\n"),
]


@dataclass(frozen=True, slots=True)
class Labelled:
    """A text, and the secret in it."""

    label: str
    text: str
    secret: str


def secrets() -> Iterator[Labelled]:
    """Return the texts that hold a secret, the same at every run."""
    random = Random(19)
    for label, forms in FORMS.items():
        for template, alphabet, length in forms:
            for _ in range(PER_FORM):
                secret = "".join(random.choices(alphabet, k=length))
                if not set(secret) & set("-_"):  # such a one may begin or end like a word
                    yield Labelled(label, template.format(secret), secret)
    for label, template in KEY_FILES:
        lines = [base64.b64encode(random.randbytes(48)).decode() for _ in range(12)]
        yield Labelled(label, template.replace("{}", "\n".join(lines)), lines[7])
        yield Labelled(label, template.replace("{}", "\n".join(lines)).replace("\n", "\\n"), lines[7])
    for length in (24, 33, 48, 96, 300):
        for _ in range(PER_FORM):
            secret = base64.b64encode(random.randbytes(length)).decode()
            if len(secret.rstrip("=")) >= 33:
                yield Labelled("BASE64_BLOB", f"cookie {secret} was set", secret)
                word = base64.b64encode(("the quick brown fox jumps over it " * 9)[:length].encode()).decode()
                yield Labelled("BASE64_BLOB", f"data {word} here", word)


# ruff: noqa: E501, RUF001 - a text is a line, in any language
#: Nothing in these is a secret: whatever is replaced in one is a false positive.
HARMLESS = """\
/usr/lib/python3.11/site-packages/pydantic_core/_pydantic_core.cpython-311-x86_64-linux-gnu.so
/home/ann/projects/memory-plugin/internal/handlers/mcp_tools_memory_legacy_shim.go
/var/lib/docker/overlay2/3f2c1b7a9d8e4f6051a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f7a8/merged
/nix/store/0c5b8nwgz1jz4h9qyxsl0ls7v2qmzpkd-python3-3.11.9/bin/python3
C:/Users/Ann/AppData/Local/Programs/Microsoft VS Code/resources/app/extensions/typescript
src/main/java/com/example/billing/invoices/InvoiceNumberGeneratorFactoryImplTest.java
workspace-server/internal/memory/contract/contract_test_fixtures_for_validation
node_modules/@typescript-eslint/eslint-plugin/dist/configs/recommended-requiring-type-checking.js
docs/api-protocol/memory-plugin-v1/endpoints/namespaces/memories/search/README
https://github.com/pydantic/pydantic-core/blob/main/src/serializers/type_serializers/datetime_etc.rs
https://docs.example.com/en/latest/guides/how-to-replace-the-built-in-plugin#backfill
https://example.com/2026/11/05/the-quick-brown-fox-jumps-over-the-lazy-dog-and-runs-away
https://host:8080/@scope/package
http://localhost:9100/v1/namespaces/workspace:7f1b6c1e-3c5e-4d0e-9a53-2f4f5f0f9a11/memories
postgres://localhost:5432/app?user=ann@example.com
postgresql://db.internal:5432/app
redis://cache:6379/0
commit 9fceb02d0ae598e95dc970b74767f19372d61af8 changed the parser
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty.txt
sha512 cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e
"integrity": "sha512-PjUmQe7Z0dOhW4sHr0CtQmW4J3b0v9GJc1bC0oH0aKkQ3oZ2k1xYz7w8v9u0t1s2r3q4p5o6n7m8l9k0j1i2hA=="
sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=
SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8 ann@laptop (ED25519)
docker.io/library/postgres@sha256:4ec37d2a07a0067f176fdcc9d4bb633a5724d2cc4f892c7a2046d054bb6939e5
ipfs QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKPBdG
bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi
7f1b6c1e-3c5e-4d0e-9a53-2f4f5f0f9a11
trace 4bf92f3577b34da6a3ce929d0e0e4736 span 00f067aa0ba902b7
00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6
export OPENAI_API_KEY=$OPENAI_API_KEY
OPENAI_API_KEY=<your key here>
OPENAI_API_KEY=${OPENAI_API_KEY:?}
api_key = os.environ["OPENAI_API_KEY"]
MY_TOKEN={{ secrets.MY_TOKEN }}
MY_SECRET=changeme
api_key=None
self.access_token = get_token(request)
MAX_TOKEN=4096
next_token=tokenizer.next and page_token = response.meta.next
max_token: 128000
next_token: none of them
token = tokenizer.next_token()
if access_token == expected_token: pass
the api_key: it is in the vault
The api_token is what the caller sends.
CLIENT_SECRET=xxxxxxxxxxxx
DB_PASSWORD=****
password: what you type to log in
Bearer of good news
the bearer authentication scheme is described in RFC 6750
a bearer token is sent with every request
Authorization: Bearer <token>
Authorization: Bearer $TOKEN
sk-learn and pandas
sk-loading-spinner-container
a risk-assessment-framework-for-agents
the task-oriented-dialogue-benchmark-v2 paper
sk-SK is the Slovak locale
vc_manager and vc_controller_instance
pplx is a unit of perplexity
AKIA is how such keys begin
ghp_ is a prefix
xoxb- tokens belong to bots
eyJ is how JSON begins in base64
we keep -----BEGIN PRIVATE KEY----- out of the repository, and so should you
thisIsAVeryLongCamelCaseIdentifierThatSomebodyReallyWrote
THIS_IS_A_VERY_LONG_CONSTANT_NAME_WITH_MANY_WORDS_IN_IT
this_is_a_very_long_snake_case_identifier_with_many_words_in_it
test_that_the_second_write_of_the_same_id_replaces_every_field_and_keeps_created_at
AbstractSingletonProxyFactoryBeanConfigurationProcessor
antidisestablishmentarianismandfloccinaucinihilipilification
Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft
2026-11-05T10-30-22Z-run-17-model-b3-lr0-001-seed-42-final
build-2026-11-05-10-30-22-x86-64-linux-gnu-release-1234
ATCGATCGGCTAAGCTTACGGATCGATTACAGGCTAAGCTTAGC
000000000000000000000000000000000000000000
=========================================================
-----------------------------------------------------------
_________________________________________________________
aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
ProductsAndServicesOverview/InternationalBusinessDevelopment/QuarterlyReports
application/vnd.openxmlformats-officedocument.wordprocessingml.document
com.apple.developer.ubiquity-container-identifiers/iCloud
k8s.gcr.io/ingress-nginx/controller:v1.11.2
arn:aws:iam::123456789012:role/service-role/AWSLambdaBasicExecutionRole
projects/my-project-id/locations/europe-west1/keyRings/main-ring/cryptoKeys/main
libstdc++6_12.2.0-14+deb12u1_amd64.deb
/api/v1/workspaces/{id}/v2/namespaces and /api/v1/workspaces/{id}/v2/memories
My number is 0043123456789 and my order is 4711-0815-2026-11.
I like trains, and my daughter's name is Alice.
We fly to Lisbon on Friday; the flight is TP1273 from VIE at 06:05.
Die Donau ist blau, und der Zug nach Wien hat 12 Minuten Verspätung.
我喜欢火车，不喜欢飞机。
Please rotate the keys every 90 days and never paste one into the chat.
OPENAI_API_KEY=YOUR_OPENAI_API_KEY
OPENAI_API_KEY=your-api-key-here
api_key=test
Authorization: Bearer YOUR_TOKEN
Authorization: see section 3 of the specification
curl -u user:password https://x
docker run -u 1000:1000 image
pip install -U pip:latest
mysql -u root -p shop
redis-cli -h localhost -p 6379 ping
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
hf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
--- PASS: TestLogin2 (0.00s)
pwd: /srv/app1
SSL_KEY=/run/secrets/tls.key
![logo](data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4)
public_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHZfcGmW0aSPWeiG1jHBDS2eUuDgLvwiOEMvAuIwP1Ij
re_3M1NispeeZvKYlo2Cd31jOCg is a refund
live_stream_of_the_conference_2024 and sdk-python-v2.1.0
partition_key=user_id and sort_key: created_at_2024
IDENTIFIED BY is a clause of MySQL
passed 12 of 12, bypass=true, passport=AB
""".splitlines()
