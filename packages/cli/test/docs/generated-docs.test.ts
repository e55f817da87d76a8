import { readFile } from 'node:fs/promises'
import { errorTable } from '@cllm/core'
import t from 'tap'
import { configHelp } from '../../src/commands/config-help.js'
import { options } from '../../src/config/option-list.js'
import { generatedDocs } from '../../src/docs/generated-docs.js'
import { renderConfigurationDocs } from '../../src/docs/render-configuration-docs.js'
import { renderErrorsDocs } from '../../src/docs/render-errors-docs.js'

t.test('the pages made from code are current', async (t) => {
  for (const { file, render } of generatedDocs) {
    t.equal(await readFile(file, 'utf8'), render(), `${file.pathname}: \`pnpm run docs\` writes it`)
  }
})

t.test('nothing is left out', async (t) => {
  const [page, help] = [renderConfigurationDocs(), configHelp()]
  for (const { path, arg, env } of options) {
    t.ok(page.includes(`\`${path}\` | \`--${arg}`), path)
    t.ok(page.includes(`\`${env}\``), env)
    t.ok(help.includes(`  --${arg}`), arg)
  }
  t.notOk(
    help.split('\n').some((line) => line.length > 100),
    'help fits the terminal',
  )
  const errors = renderErrorsDocs()
  for (const code of Object.keys(errorTable)) t.ok(errors.includes(`| \`${code}\` |`), code)
})
