// The requests of the service, from its own description; works without any other host.

import { get } from './api.js';
import { el, failed } from './dom.js';

const METHODS = ['get', 'post', 'delete', 'put'];

function named(schema, all) {
  const name = schema?.$ref?.split('/').at(-1);
  return name ? [name, all[name]] : [null, schema ?? {}];
}

/** A type in a few words. */
function kind(schema) {
  const one = schema ?? {};
  if (one.$ref) return one.$ref.split('/').at(-1);
  if (one.enum) return one.enum.map((value) => JSON.stringify(value)).join(' or ');
  if (one.anyOf) return one.anyOf.map(kind).join(' or ');
  if (one.type === 'array') return `list of ${kind(one.items)}`;
  const type = [one.type ?? 'any'].flat().join(' or ');
  const bounds = [one.minimum === undefined ? '' : `from ${one.minimum}`, one.maximum === undefined ? '' : `to ${one.maximum}`].filter(Boolean).join(' ');
  return [type, bounds, one.default === undefined ? '' : `(${one.default})`].filter(Boolean).join(' ');
}

function members(schema, all, depth = 0) {
  const [, own] = named(schema, all);
  if (own?.allOf) return own.allOf.flatMap((part) => members(part, all, depth));
  return Object.entries(own?.properties ?? {}).map(([name, value]) => el('tr', {}, el('td', {}, el('code', {}, name)), el('td', { class: 'kind' }, kind(value)), el('td', {}, value.description ?? '')));
}

const table = (rows) => el('table', {}, el('tbody', {}, rows));
const part = (title, ...nodes) => el('div', {}, el('h3', {}, title), ...nodes);

function example(method, path, operation) {
  const body = operation.requestBody ? ` -H 'Content-Type: ${Object.keys(operation.requestBody.content)[0]}' -d '{"id": "a", "text": "..."}'` : '';
  const token = ' -H "Authorization: Bearer $NEARDUP_TOKEN"';
  const needed = (operation.parameters ?? []).filter((one) => one.in === 'query' && one.required).map((one) => `${one.name}=...`);
  const query = needed.length ? `?${needed.join('&')}` : '';
  const stream = path === '/v1/events' ? ' -N' : '';
  return `curl${stream}${method === 'get' || body ? '' : ` -X ${method.toUpperCase()}`}${token}${body} '${new URL('.', location.href)}${path.slice(1)}${query}'`;
}

function operation(method, path, one, { schemas: all, responses }) {
  const parameters = (one.parameters ?? []).map((p) => el('tr', {}, el('td', {}, el('code', {}, p.name)), el('td', { class: 'kind' }, `${p.in}, ${kind(p.schema)}`), el('td', {}, p.description ?? '')));
  const body = Object.values(one.requestBody?.content ?? {})[0]?.schema;
  const given = Object.entries(one.responses).map(([status, answer]) => [status, named(answer, responses)[1]]);
  const answers = given.map(([status, answer]) => el('tr', {}, el('td', {}, el('code', {}, status)), el('td', {}, answer.description)));
  const good = Object.values(given.find(([status]) => status === '200')?.[1].content ?? {})[0]?.schema;
  const fields = good ? members(good, all) : [];
  return el('details', { class: 'request' },
    el('summary', {}, el('span', { class: `method ${method}` }, method.toUpperCase()), el('code', {}, path), el('span', { class: 'quiet' }, one.summary)),
    el('div', { class: 'inside' },
      one.description ? el('p', {}, one.description) : null,
      el('pre', {}, example(method, path, one)),
      parameters.length ? part('Parameters', table(parameters)) : null,
      body ? part('Body', table(members(body, all))) : null,
      fields.length ? part('Answer', table(fields)) : null,
      part('Status', table(answers))));
}

const panel = document.getElementById('requests');
try {
  const description = await get('/openapi.json');
  document.getElementById('intro').textContent = `${description.info.description} Errors are problem details (RFC 9457): rule, remedy and field.`;
  for (const [path, methods] of Object.entries(description.paths)) {
    for (const method of METHODS.filter((name) => methods[name])) panel.append(operation(method, path, methods[method], description.components));
  }
} catch (error) {
  panel.replaceChildren(failed(error));
}
document.getElementById('view').dataset.ready = 'true';
