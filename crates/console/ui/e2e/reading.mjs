// Server-sent events as a program reads them, without a browser.

/** Listens to a server, and collects what it says until it is closed. */
export async function readEvents(base, token) {
  const stopper = new AbortController();
  const headers = { authorization: `Bearer ${token}`, accept: "text/event-stream" };
  const response = await fetch(`${base}/api/v1/events`, { headers, signal: stopper.signal });
  if (!response.ok) throw new Error(`GET /events: ${response.status}`);
  const events = [];
  void read(response.body, events).catch(() => undefined);
  return { events, close: () => stopper.abort() };
}

async function read(body, events) {
  let rest = "";
  for await (const piece of body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + piece).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const field = (name) => block.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      if (field("event")) events.push({ id: field("id"), name: field("event"), data: JSON.parse(field("data")) });
    }
  }
}
