import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTemplateCompiler, readKnownTemplates } from '@cllm/backend-llamacpp'
import { silentLogger } from '@cllm/core'
import { checkTemplate, type TemplateCheck } from './check-template.js'

/** What works with each template that llama.cpp's source holds, by name. */
export async function checkKnownTemplates(): Promise<ReadonlyMap<string, TemplateCheck>> {
  const scratch = mkdtempSync(join(tmpdir(), 'cllm-templates-'))
  try {
    const compile = await createTemplateCompiler(silentLogger)
    const checks = new Map<string, TemplateCheck>()
    for (const [name, source] of readKnownTemplates(join(scratch, 'source.git'))) {
      checks.set(name, await checkTemplate(source, compile))
    }
    return checks
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

/** The text of `docs/models.md`. */
export async function renderModelsDocs(): Promise<string> {
  const checks = [...(await checkKnownTemplates())]
  const rows = checks.map(([name, check]) => {
    const cells = [
      mark(check.renders),
      check.thinking === undefined ? '' : `\`${check.thinking.replaceAll('|', String.raw`\|`)}\``,
      mark(check.splitsThinking),
      mark(check.call),
      mark(check.severalCalls),
      mark(check.isHeld),
      check.streams === undefined ? '' : check.streams ? 'arguments' : 'whole calls',
    ]
    return `| ${name} | ${cells.join(' | ')} |`
  })
  const all = checks.map(([, check]) => check)
  const count = (of: (check: TemplateCheck) => boolean | undefined) => {
    const known = all.map(of).filter((value) => value !== undefined)
    return `${known.filter(Boolean).length} of ${known.length}`
  }
  return `# Models

<!-- Generated from the chat templates in llama.cpp's source by \`pnpm run docs\`; do not edit. -->

How a model writes tool calls and reasoning is learnt from its chat template: a few conversations are
rendered and compared, which shows what stands around a call, its name, its arguments and the
reasoning. So a model that is not in this table works as well, if its template shows calls. Only
gpt-oss has an entry of its own, because its template does not show what the model writes.

What looks like a call and is none, such as one of an unknown tool or with arguments that break off,
reaches the client as text. Templates that the renderer in JavaScript refuses are rendered by
llama.cpp's.

These templates come with llama.cpp's source. An empty cell means that the template shows no such
thing; then calls in the common forms are understood all the same (\`<tool_call>\` with JSON, bare JSON and
others), and reasoning in the marks that the template's text names.

Rendered: ${count((check) => check.renders)}. Calls read: ${count((check) => check.call)}. Several
calls read: ${count((check) => check.severalCalls)}. Reasoning told from the answer:
${count((check) => check.splitsThinking)}. Calls of strict tools held to their schemas: ${count((check) => check.isHeld)}.

A call of a tool that is \`strict\` is held to the tool's schema by a grammar from the mark on with which the
model begins it, whether a call is asked for or left to the model (\`tool_choice: auto\`). Behind the mark of
models that write arguments in forms of their own the call is JSON. The template of gpt-oss shows calls in a
form in which the model does not write them; those that it writes are held.

| template | renders | reasoning begins with | reasoning | call | several calls | strict calls | streamed |
|---|---|---|---|---|---|---|---|
${rows.join('\n')}
`
}

const mark = (works: boolean | undefined): string =>
  works === undefined ? '' : works ? 'yes' : '**no**'
