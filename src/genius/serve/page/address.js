// Addresses: what is shown stands behind the # of the page's address, so that one can link to it and go back.

/** The path and the parameters of the current address. */
export function currentAddress() {
  const [path, parameters] = location.hash.slice(1).split(/\?(.*)/s);
  return { path, parameters: new URLSearchParams(parameters ?? "") };
}

/** An address of this page. */
export function addressOf(path, parameters) {
  return `#${path}${`${parameters}` ? `?${parameters}` : ""}`; // older browsers know no `size`
}

/** The current address with another value of a parameter; null removes it. */
export function addressWith(name, value) {
  const { path, parameters } = currentAddress();
  if (value === null) parameters.delete(name);
  else parameters.set(name, value);
  return addressOf(path || "/search", parameters);
}
