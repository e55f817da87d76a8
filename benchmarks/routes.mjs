// Records what every route of a running server answers, to compare two versions byte for byte:
//
//   node benchmarks/routes.mjs record http://127.0.0.1:8080 before.json
//   node benchmarks/routes.mjs record http://127.0.0.1:8081 after.json
//   node benchmarks/routes.mjs compare before.json after.json
//
// Serve stories15m, one model, the same flags. Answers are greedy; times, ids and sizes of memory are
// masked. A route of /openapi.json without a request here is an error.
import { readFileSync, writeFileSync } from 'node:fs'
import { requests } from './lib/route-requests.mjs'

const [command, first, second] = process.argv.slice(2)
if (command === 'record' && second !== undefined) await record(first, second)
else if (command === 'compare' && second !== undefined) compare(first, second)
else {
  console.error('expected `record URL FILE` or `compare FILE FILE`')
  process.exitCode = 2
}

async function record(url, file) {
  const { paths } = await (await fetch(`${url}/openapi.json`)).json()
  const named = new Set(requests.map(({ route }) => route))
  for (const [path, methods] of Object.entries(paths)) {
    for (const method of Object.keys(methods)) {
      const route = `${method.toUpperCase()} ${path}`
      if (!named.has(route)) throw new Error(`no request for ${route}`)
    }
  }
  const answers = {}
  for (const { route, name = '', path, body, headers = {} } of requests) {
    const [method, template] = route.split(' ')
    const response = await fetch(url + (path ?? template), {
      method,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const type = response.headers.get('content-type') ?? ''
    const text = masked(await response.text(), template)
    answers[`${route} ${name}`.trim()] = { status: response.status, type, text }
  }
  writeFileSync(file, JSON.stringify(answers, undefined, 2))
  console.log(`${Object.keys(answers).length} answers of ${named.size} routes in ${file}`)
}

function masked(text, route) {
  if (route === '/metrics') return text.replace(/^([^#\s]+) \S+$/gm, '$1 ~')
  return text
    .replace(/[0-9a-f]{32}/g, '~id')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z?/g, '~date')
    .replace(
      /"([^"]*(?:_?ms|Ms|per_second|_seconds|duration|created|created_at|completed_at|_at|time|arrival|bytes|Bytes|uptime|throughput|tokens_per\w*|expires_at|beginsAt|now|mean|p50|p90|p95|p99|min|max))":-?[\d.e+-]+/g,
      '"$1":"~"',
    )
}

function compare(before, after) {
  const [a, b] = [before, after].map((file) => JSON.parse(readFileSync(file, 'utf8')))
  let different = 0
  for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) {
    const [left, right] = [a[key], b[key]].map((answer) => JSON.stringify(answer))
    if (left === right) continue
    different++
    console.log(`${key}\n  before ${left?.slice(0, 2000)}\n  after  ${right?.slice(0, 2000)}`)
  }
  console.log(`${Object.keys(a).length} answers, ${different} different`)
  process.exitCode = different === 0 ? 0 : 1
}
