/** A web `Response` with another body; whatever else it says stays. */
export function heldResponse(original: Response, body: ReadableStream | null): Response {
  const held = new Response(body, original);
  const clone = held.clone.bind(held);
  const { type, url, redirected } = original;
  return Object.defineProperties(held, {
    type: { value: type },
    url: { value: url },
    redirected: { value: redirected },
    clone: { value: () => heldResponse(original, clone().body) },
  });
}
