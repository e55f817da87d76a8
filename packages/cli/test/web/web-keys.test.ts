import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { createKey } from '../../src/keys/keys.js'
import { serve } from '../serve-process.js'
import { startBrowser } from './browser.js'
import { richAnswers } from './chat.js'
import { asksForKey, keepsChat, keysPage, triesRoutes, usage } from './keys.js'
import { executable, skip, visit } from './visit.js'

/** What the server with keys says: its model, of letters, goes on as in a text that it has read. */
const answers = `user: How is a mean computed?

The **mean** of $n$ numbers is their sum over $n$:

$$
\\bar{x} = \\frac{1}{n} \\sum_{i=1}^{n} x_i
$$

\`\`\`js
const mean = (all) => all.reduce((a, b) => a + b, 0) / all.length // NaN of none
\`\`\`

| numbers | mean |
|---|---:|
| 1, 2, 6 | 3 |
`
const letters = fileURLToPath(
  new URL('../../../../examples/backend-plugin/ngram-plugin.js', import.meta.url),
)

t.test('the page of a server with keys, used as a person would', { skip }, async (t) => {
  const { secret, key } = createKey({ name: 'ops', tenant: 'ops', role: 'admin' })
  const user = createKey({ name: 'eve', tenant: 'eve', role: 'user' })
  const keys = JSON.stringify({ keys: [key, user.key] })
  const folder = t.testdir({ 'answers.md': answers, 'keys.json': keys })
  const of = (name: string): string => join(folder, name)
  const withLetters =
    `--plugin ${letters} --backend ngram --backend-options {"order":16} --ctx-size 1024 --model`
      .split(' ')
      .concat(of('answers.md'))
  const kept = ['--usage', of('usage'), '--batches', of('batches')]
  const [{ url }, browser] = await Promise.all([
    serve(t, ...withLetters, '--api-keys', of('keys.json'), ...kept),
    startBrowser(t, executable!),
  ])
  const step = await visit(t, browser, url)
  await step('a key is asked for', async (t, visit) => await asksForKey(t, visit, secret))
  await step('usage: sums, and a file', async (t, visit) => await usage(t, visit, secret))
  await step('keys: made, shown once, revoked', keysPage)
  await step('chat: code, formulas, tables', richAnswers)
  await step('a user chats, whatever else is refused', async (t, visit) => {
    await keepsChat(t, visit, { user: user.secret, admin: secret })
  })
  await step('routes: tried', async (t, visit) => await triesRoutes(t, visit, secret))
})
