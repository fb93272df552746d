// One key a submit: the same for a second click, a retry, and a page that is loaded again.
// hapax's layer, or any other server that knows `Idempotency-Key`, handles it once.

const ATTEMPTS = 5;
const PATIENCE_MS = 10_000;

/** Returns the key of a form's submit, which is made with its first attempt. */
export function keyOf(form: string): string {
  const key = sessionStorage.getItem(`key-of:${form}`) ?? crypto.randomUUID();
  sessionStorage.setItem(`key-of:${form}`, key);
  return key;
}

/** Submits a form, again while nobody knows whether it was done. Throws if that stays unknown. */
export async function submit(form: string, url: string, body: string): Promise<Response> {
  const key = keyOf(form);
  const headers = { "Content-Type": "application/json", "Idempotency-Key": `"${key}"` };
  for (let attempt = 1; ; attempt++) {
    const patience = new AbortController();
    const timer = setTimeout(() => patience.abort(), PATIENCE_MS);
    try {
      const response = await fetch(url, { method: "POST", headers, body, signal: patience.signal });
      const isOver = response.status < 500 && ![408, 409, 429].includes(response.status);
      // The next submit is another one, and may have begun already.
      if (isOver && keyOf(form) === key) sessionStorage.removeItem(`key-of:${form}`);
      if (isOver || attempt === ATTEMPTS) return response;
    } catch (error) {
      if (attempt === ATTEMPTS) throw error; // unknown: the key stays for the next attempt
    } finally {
      clearTimeout(timer);
    }
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 250 * 2 ** attempt));
  }
}
