// The one client of the public API. Every call of the console goes through `call`.

const HALF = "afterturn.session";
const PATIENCE_MS = 60_000;
/** Of a tenant, the newest. */
const SNAPSHOTS = 20;

/** A refusal of the API, in its own words. */
export class ApiError extends Error {
  constructor(status, error, requestId) {
    super(error.message);
    Object.assign(this, { status, code: error.code, details: error.details || {}, requestId });
  }
}

/** Raised where no answer came: the network, or a service that is down. */
export class NoAnswer extends Error {}

// The page's half of the session; the other is in a cookie that no script reads. Storage belongs to this origin, with
// its port: another server on this machine is sent the cookie and never this.
export const session = {
  half: () => localStorage.getItem(HALF),
  keep: (half) => localStorage.setItem(HALF, half),
  forget: () => localStorage.removeItem(HALF),
};

const ended = new EventTarget();
export const onSessionEnd = (listener) => ended.addEventListener("end", listener);

function address(path, query) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query || {}))
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  return url;
}

/** Send a call; `headers` beside those of the session. Raises NoAnswer. */
async function send(method, path, { query, body, headers = {}, signal = AbortSignal.timeout(PATIENCE_MS) }) {
  const half = session.half();
  if (half) headers["x-console-session"] = half;
  if (body !== undefined) headers["content-type"] = "application/json";
  try {
    return await fetch(address(path, query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      signal,
    });
  } catch (error) {
    throw new NoAnswer(error.name === "TimeoutError" ? "timeout" : "network");
  }
}

/** Return the error that a refusal tells; with the session's end, all of the console is told. */
function refusal(response, answer) {
  if (response.status === 401 && session.half()) {
    session.forget();
    ended.dispatchEvent(new Event("end"));
  }
  const error = answer?.error || { code: `HTTP ${response.status}`, message: response.statusText };
  return new ApiError(response.status, error, answer?.request_id);
}

const readJson = (response) => response.json().catch(() => null);

/** Call the API and return its JSON; null for an empty answer. `accept`: statuses that are answers. Raises ApiError, NoAnswer. */
export async function call(method, path, { accept = [], ...more } = {}) {
  const response = await send(method, path, more);
  if (response.status === 204) return null;
  const answer = await readJson(response);
  if ((response.ok || accept.includes(response.status)) && answer !== null) return answer;
  throw refusal(response, answer);
}

/** Open a stream of server-sent events after the one named `last`, and return its bytes. Raises ApiError, NoAnswer. */
export async function openEvents(path, { last, signal }) {
  const headers = { accept: "text/event-stream", ...(last && { "last-event-id": last }) };
  const response = await send("GET", path, { headers, signal });
  if (response.ok) return response.body;
  throw refusal(response, await readJson(response));
}

const V1 = "/api/v1";
const unitPath = (id) => `${V1}/units/${encodeURIComponent(id)}`;

export const signIn = (body) => call("POST", `${V1}/console/session`, { body });
export const whoIsSignedIn = () => call("GET", `${V1}/console/session`);
export const signOut = () => call("DELETE", `${V1}/console/session`);

export const listBanks = (query) => call("GET", `${V1}/banks`, { query });
export const listSessions = (query) => call("GET", `${V1}/sessions`, { query });
export const listTurns = (query) => call("GET", `${V1}/turns`, { query });
export const listUnits = (query) => call("GET", `${V1}/units`, { query });
export const getTurn = (query) => call("GET", `${V1}/turns`, { query });
export const findTurn = (id) => call("GET", `${V1}/turns/${encodeURIComponent(id)}`);
export const getFreshness = (bank) => call("GET", `${V1}/freshness`, { query: { bank } });
export const getUnit = (bank, id) => call("GET", unitPath(id), { query: { bank } });
export const changeUnit = (bank, id, body) => call("PATCH", unitPath(id), { query: { bank }, body });
export const setPin = (bank, id, pinned) => call(pinned ? "PUT" : "DELETE", `${unitPath(id)}/pin`, { query: { bank } });
export const forgetUnit = (bank, id) => call("DELETE", unitPath(id), { query: { bank, with_facts: true } });
export const eraseUnit = (bank, id) => call("DELETE", unitPath(id), { query: { bank, erase: true } });
export const listEntities = (query) => call("GET", `${V1}/entities`, { query });
export const listDocuments = (query) => call("GET", `${V1}/docs`, { query });
export const getDocument = (bank, id) => call("GET", `${V1}/docs/${encodeURIComponent(id)}`, { query: { bank } });
export const listDirectives = (query) => call("GET", `${V1}/directives`, { query });
export const listReflections = (query) => call("GET", `${V1}/reflections`, { query });
export const changeBank = (bank, body) => call("PATCH", `${V1}/banks`, { query: { bank }, body });
export const listUsers = (query) => call("GET", `${V1}/users`, { query });
export const getProfile = (query) => call("GET", `${V1}/profile`, { query });
export const getNeighbourhood = (query) => call("GET", `${V1}/neighbourhood`, { query });
export const recall = (body) => call("POST", `${V1}/recall`, { body });

export const previewErasure = (body) => call("POST", `${V1}/erasures/preview`, { body });
export const createErasure = (body) => call("POST", `${V1}/erasures`, { body });
export const getErasure = (id) => call("GET", `${V1}/erasures/${encodeURIComponent(id)}`);

const OPERATOR = `${V1}/operator`;
export const FIGURES = `${OPERATOR}/figures/stream`;
export const listTenants = (query) => call("GET", `${OPERATOR}/tenants`, { query });
export const listJobs = (query) => call("GET", `${OPERATOR}/jobs`, { query });
export const countJobs = (query) => call("GET", `${OPERATOR}/jobs/count`, { query });
export const getJob = (id, tenant) => call("GET", `${OPERATOR}/jobs/${encodeURIComponent(id)}`, { query: { tenant } });
export const changeMatchingJobs = (body) => call("POST", `${OPERATOR}/jobs/matching`, { body });
export const changeJobs = (body) => call("POST", `${OPERATOR}/jobs`, { body });
export const settleDelivery = (id, body) => call("POST", `${OPERATOR}/jobs/${encodeURIComponent(id)}/settle`, { body });
export const listQueues = () => call("GET", `${OPERATOR}/queues`);
export const listLetters = (query) => call("GET", `${OPERATOR}/letters`, { query });
export const countLetters = (query) => call("GET", `${OPERATOR}/letters/count`, { query });
export const changeLetters = (body) => call("POST", `${OPERATOR}/letters`, { body });
export const changeMatchingLetters = (body) => call("POST", `${OPERATOR}/letters/matching`, { body });
export const getTenant = (id) => call("GET", `${OPERATOR}/tenants/${encodeURIComponent(id)}`);
export const listKeys = (tenant) => call("GET", `${OPERATOR}/keys`, { query: { tenant } });
export const createKey = (body) => call("POST", `${OPERATOR}/keys`, { body });
export const rotateKey = (id, body) => call("POST", `${OPERATOR}/keys/${encodeURIComponent(id)}/rotate`, { body });
export const revokeKey = (id, tenant) => call("DELETE", `${OPERATOR}/keys/${encodeURIComponent(id)}`, { query: { tenant } });
export const getQuotas = (tenant) => call("GET", `${OPERATOR}/quotas`, { query: { tenant } });
export const setQuota = (body) => call("PUT", `${OPERATOR}/quotas`, { body });
export const listTargets = (query) => call("GET", `${OPERATOR}/targets`, { query });
export const setTarget = (body) => call("PUT", `${OPERATOR}/targets`, { body });
export const unsetTarget = (query) => call("DELETE", `${OPERATOR}/targets`, { query });
export const listCalls = (query) => call("GET", `${OPERATOR}/audit`, { query });
export const getSettings = () => call("GET", `${OPERATOR}/settings`);
export const checkInstallation = () => call("GET", `${OPERATOR}/doctor`);

const EMBEDDINGS = `${OPERATOR}/embeddings`;
export const listGenerations = () => call("GET", EMBEDDINGS);
export const buildGeneration = () => call("POST", `${EMBEDDINGS}/build`);
export const compareGenerations = (query) => call("GET", `${EMBEDDINGS}/comparison`, { query });
export const switchGeneration = (body) => call("POST", `${EMBEDDINGS}/switch`, { body });
export const rollBackGeneration = () => call("POST", `${EMBEDDINGS}/rollback`);
export const dropGeneration = (generation) => call("DELETE", `${EMBEDDINGS}/${generation}`);
export const listSnapshots = (tenant) => call("GET", `${OPERATOR}/snapshots`, { query: { tenant, limit: SNAPSHOTS } });
