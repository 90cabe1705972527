// A short queue for the many small questions that the rows of a list ask, so that they do not hold up what a person does.

const AT_ONCE = 3;

const waiting: (() => void)[] = [];
let busy = 0;

export async function few<T>(ask: () => Promise<T>): Promise<T> {
  if (busy >= AT_ONCE) await new Promise<void>((go) => waiting.push(go));
  busy += 1;
  try {
    return await ask();
  } finally {
    busy -= 1;
    waiting.shift()?.();
  }
}
