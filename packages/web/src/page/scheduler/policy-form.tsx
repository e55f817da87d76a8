import type { SchedulerInfo } from '@cllm/core'
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Form, Select, TextArea, useTelling } from '../parts/form.js'
import { useServer } from '../server/server.js'

interface Answer {
  readonly data: Pick<SchedulerInfo, 'policy' | 'options' | 'available'>
}

/** Shows the policy in force, and sets another one. */
export function PolicyForm({
  model,
  inForce,
}: {
  readonly model: string
  /** Its name as the live view has it, which somebody else may have changed. */
  readonly inForce: string
}): JSX.Element {
  const server = useServer()
  const [known, setKnown] = useState<Answer['data']>()
  const [chosen, setChosen] = useState<string>()
  const [options, setOptions] = useState('')
  const { told, tell, attempt } = useTelling()
  const path = `admin/scheduler${model === '' ? '' : `?model=${encodeURIComponent(model)}`}`
  const take = ({ data }: Answer): void => {
    setKnown(data)
    setChosen(data.policy)
    setOptions(JSON.stringify(data.options))
  }
  useEffect(() => {
    server.json<Answer>(path).then(take, (error: Error) => tell(error.message))
  }, [server, path, inForce])
  const set = async (): Promise<string> => {
    const body = { policy: chosen, options: JSON.parse(options || '{}') as unknown }
    take(await server.json<Answer>(path, { method: 'PUT', body }))
    return `${chosen} is in force from the next step on.`
  }
  return (
    <Form class="card" onSend={() => attempt(set)}>
      <h2>Policy</h2>
      <p>
        In force: <code>{inForce}</code>
      </p>
      <Select
        label="Another one"
        value={chosen}
        options={known?.available.map(({ name }) => name) ?? []}
        onChoose={(value) => {
          setChosen(value)
          const { options = {} } = known?.available.find(({ name }) => name === value) ?? {}
          setOptions(JSON.stringify(options))
        }}
      />
      <TextArea label="Its options, as JSON" value={options} onText={setOptions} />
      <div class="buttons">
        <button type="submit">Set the policy</button>
      </div>
      <p role="status">{told}</p>
    </Form>
  )
}
