import { silentLogger } from '@cllm/core'
import t from 'tap'
import { createTemplateCompiler } from '../../src/create-llamacpp-backend.js'
import { compileTemplate } from '../../src/text/compile-template.js'

t.test('what one renderer cannot do, the other one does', async (t) => {
  const compile = await createTemplateCompiler(silentLogger)
  // a filter that the renderer in JavaScript does not have
  const source = '{{ [3, 1, 2] | min }}'
  t.throws(() => compileTemplate(source).render({}))
  t.equal(compile(source).render({}), '1')
  t.equal(compile('{{ a }}').render({ a: 'x' }), 'x')
})

t.test('what both refuse fails in the words of the first', async (t) => {
  const compile = await createTemplateCompiler(silentLogger)
  const refusing = "{{ raise_exception('no ' + who) }}"
  t.throws(() => compile(refusing).render({ who: 'tools' }), { message: 'no tools' })
  t.throws(() => compile('{% if %}'))
  t.throws(() => compileTemplate('{% if %}'))
})
