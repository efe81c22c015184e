// A statement to the server, and its rows.

// Of longer values, the page gets the beginning.
const VALUE_BYTES_MAX = 2000;

export const limits = (rows_max, seconds_max) =>
  `rows_max=${rows_max}&seconds_max=${seconds_max}&value_bytes_max=${VALUE_BYTES_MAX}`;

export const ask = async (statement, { rows_max, seconds_max, signal }) => {
  const answered = await fetch("query?" + limits(rows_max, seconds_max), {
    method: "POST", body: statement, headers: { Accept: "application/json" }, signal,
  });
  return answered.json();
};

// The same, for a statement of the page itself, which has no place for an error.
export const rowsOf = async (statement, options) => {
  const answer = await ask(statement, options);
  if (answer.error && !answer.columns) throw new Error(answer.error.message);
  return answer;
};

export const quoted = (name) => '"' + name.replaceAll('"', '""') + '"';
