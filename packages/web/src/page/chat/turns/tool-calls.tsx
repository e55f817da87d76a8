import { useState } from 'preact/hooks'
import { Buttons, Form, Quiet, TextArea, useTelling } from '../../parts/form.js'
import { parsedJson } from '../../parts/format.js'
import { hasFeature } from '../../parts/switched-off.js'
import { useServer } from '../../server.js'
import type { ToolCall, ToolResult } from '../conversation.js'

/** A model's tool call, which may still be streaming in. */
export const Call = ({ call: { name, arguments: given } }: { readonly call: ToolCall }) => (
  <Part what="Calls" name={name} label={`Arguments of ${name}`} text={pretty(given)} />
)

/** The results of tool calls. */
export const Results = ({ results }: { readonly results: readonly ToolResult[] }) =>
  results.map(({ name, content }, index) => (
    <Part key={index} what="Result of" name={name} label={`Result of ${name}`} text={content} />
  ))

type PartProps = Readonly<Record<'what' | 'name' | 'label' | 'text', string>>

function Part({ what, name, label, text }: PartProps) {
  return (
    <details class="call" open>
      <summary>
        {what} <code>{name}</code>
      </summary>
      <pre tabIndex={0} role="region" aria-label={label}>
        {text}
      </pre>
    </details>
  )
}

/** Tools of MCP servers are offered to models as `SERVER__TOOL`. */
const isMcp = (name: string): boolean => hasFeature('mcp') && name.includes('__')

interface ResultsFormProps {
  readonly calls: readonly ToolCall[]
  /** The results before an edit. */
  readonly known?: readonly ToolResult[]
  readonly isBusy: boolean
  readonly onSend: (results: readonly ToolResult[]) => void
  readonly onCancel?: () => void
}

/** A form for the results of tool calls. A button runs the tool of an MCP server. */
export function ResultsForm({ calls, known = [], isBusy, onSend, onCancel }: ResultsFormProps) {
  const [texts, setTexts] = useState(() => calls.map((_, index) => known[index]?.content ?? ''))
  const server = useServer()
  const { told, attempt } = useTelling()
  /** Runs a tool call at its MCP server, after the user has agreed. */
  const run = async (index: number): Promise<string> => {
    const { name, arguments: given } = calls[index]!
    const body = { name, arguments: JSON.parse(given || '{}') as unknown }
    const call = { method: 'POST', body } as const
    const { content } = await server.json<{ readonly content: string }>('mcp/call', call)
    setTexts((known) => known.with(index, content))
    return ''
  }
  const results = calls.map(({ id, name }, index): ToolResult => {
    return { call: id, name, content: texts[index] ?? '' }
  })
  return (
    <Form class="results" onSend={() => onSend(results)}>
      {calls.map(({ name }, index) => (
        <div key={index}>
          <TextArea
            label={`Result of ${name}${calls.length > 1 ? `, call ${index + 1}` : ''}`}
            value={texts[index]}
            onText={(text) => setTexts(texts.with(index, text))}
          />
          {isMcp(name) && (
            <Quiet onClick={() => attempt(async () => await run(index))}>
              Run {name} with these arguments
            </Quiet>
          )}
        </div>
      ))}
      <p role="status">{told}</p>
      <Buttons send={calls.length > 1 ? 'Give the results' : 'Give the result'} disabled={isBusy}>
        {onCancel !== undefined && <Quiet onClick={onCancel}>Cancel</Quiet>}
      </Buttons>
    </Form>
  )
}

function pretty(json: string): string {
  const value = parsedJson(json)
  return value === undefined ? json : JSON.stringify(value, null, 2) // it is still coming
}
