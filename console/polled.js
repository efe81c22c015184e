// What the server says at an address, asked again and again.

import { useEffect, useState } from "./vendor/htm-preact.js";

// The last answer, the one before it, and why there is none. Each answer has the time `at` which it came.
export const usePolled = (address, every_ms) => {
  const [polled, setPolled] = useState({ last: null, before: null, problem: null });
  useEffect(() => {
    const control = new AbortController();
    let timer;
    const again = async () => {
      try {
        const answer = await fetch(address, { signal: control.signal });
        const told = await answer.json();
        setPolled((known) => (answer.ok
          ? { last: { ...told, at: performance.now() }, before: known.last, problem: null }
          : { ...known, problem: told.error.message }));
      } catch {
        // The header of the page says that the server does not answer.
      }
      if (!control.signal.aborted) timer = setTimeout(again, every_ms);
    };
    again();
    return () => { control.abort(); clearTimeout(timer); };
  }, [address]);
  return polled;
};
