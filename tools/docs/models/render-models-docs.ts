import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTemplateCompiler } from '@cllm/backend-llamacpp'
import { silentLogger } from '@cllm/core'
import { checkTemplate, type TemplateCheck } from './check-template.js'
import { readKnownTemplates } from './known-templates.js'

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
  const groups = new Map<string, string[]>()
  for (const [name, check] of checks) {
    const works = `${callsOf(check)}; ${reasoningOf(check)}`
    const title = `${name}${marks[check.laterSystem]}${check.renders ? '' : ' (**not rendered**)'}`
    groups.set(works, [...(groups.get(works) ?? []), title])
  }
  const rows = [...groups].map(([works, names]) => `- **${works}**: ${names.join(', ')}`)
  const all = checks.map(([, check]) => check)
  const count = (of: (check: TemplateCheck) => boolean | undefined) => {
    const known = all.map(of).filter((value) => value !== undefined)
    return `${known.filter(Boolean).length} of ${known.length}`
  }
  return `# Models

<!-- Generated from the chat templates in llama.cpp's source by \`pnpm run docs\`; do not edit. -->

cLLM learns from a model's chat template how the model writes tool calls and reasoning: it renders a few conversations and
compares them. So a model that is not listed works too, if its template shows calls; gpt-oss, whose template does not, has an
entry of its own. Text that only looks like a call stays text. Common forms (\`<tool_call>\` with JSON, bare JSON, …) are
understood in any case.

A grammar holds a \`strict\` call to its schema from its first mark on, with \`tool_choice: auto\` too. Where a model writes
arguments in a form of its own, a strict call is JSON.

Rendered: ${count((check) => check.renders)}. Calls read: ${count((check) => check.call)}. Several
calls read: ${count((check) => check.severalCalls)}. Reasoning told from the answer:
${count((check) => check.splitsThinking)}. Strict calls held to their schemas: ${count((check) => check.isHeld)}.

A system message in the middle of a conversation stays there with ${count((check) => check.laterSystem === 'in place')} templates. Others refuse it (¹), leave it
out (²) or move it to the beginning (³), where it ends all reuse; with these cLLM adds it to the user's message before or after it.

The templates of llama.cpp's source, by what works. *All calls*: several in an answer, strict ones, streamed arguments;
otherwise the exception is named.

${rows.join('\n')}
`
}

/** What a name has behind it where a later message of the system does not stay in its place. */
const marks = { refused: '¹', 'left out': '²', moved: '³', 'in place': '' } as const

function reasoningOf({ thinking, splitsThinking }: TemplateCheck): string {
  if (thinking === undefined) return 'no reasoning'
  const mark = `reasoning from \`${thinking}\``
  return splitsThinking === false ? `${mark}, not split` : mark
}

/** What works of calls. */
function callsOf({ call, severalCalls, isHeld, streams }: TemplateCheck): string {
  if (call === undefined) return 'no calls shown'
  if (!call) return 'calls not read'
  const missing = [
    ...(severalCalls ? [] : ['one call']),
    ...(isHeld ? [] : ['not strict']),
    ...(streams ? [] : ['whole calls in streams']),
  ]
  return missing.length === 0 ? 'all calls' : missing.join(', ')
}
