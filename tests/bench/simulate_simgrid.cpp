// A ring all-reduce in SimGrid's S4U, for tests/bench/simulate_speed.py: ranks and the size in bytes are the arguments.
// Prints the simulated time [us], the messages and the wall time of the simulation [s].
//   g++ -O2 -o simulate_simgrid simulate_simgrid.cpp -lsimgrid
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace s4u = simgrid::s4u;

static std::vector<s4u::Mailbox*> boxes;

static void rank(int own, int ranks, double chunk)
{
  static int payload = 0;
  void* got          = nullptr;
  for (int step = 0; step < 2 * (ranks - 1); ++step) {
    auto out = boxes[(own + 1) % ranks]->put_async(&payload, static_cast<uint64_t>(chunk));
    auto in  = boxes[own]->get_async(&got);
    in->wait();
    out->wait();
  }
}

int main(int argc, char** argv)
{
  s4u::Engine engine(&argc, argv);
  const int ranks    = std::atoi(argv[1]);
  const double chunk = std::ceil(std::atof(argv[2]) / ranks);
  auto* zone         = s4u::create_full_zone("star");
  std::vector<s4u::Host*> hosts;
  std::vector<s4u::Link*> out, in;
  for (int own = 0; own < ranks; ++own) {
    const std::string name = std::to_string(own);
    hosts.push_back(zone->create_host("rank" + name, 1e9)->seal());
    out.push_back(zone->create_link("out" + name, 50e9)->set_latency(5e-6)->seal());
    in.push_back(zone->create_link("in" + name, 50e9)->set_latency(0)->seal());
    boxes.push_back(s4u::Mailbox::by_name("box" + name));
  }
  for (int own = 0; own < ranks; ++own) {
    const int next = (own + 1) % ranks;
    zone->add_route(hosts[own]->get_netpoint(), hosts[next]->get_netpoint(), nullptr, nullptr,
                    {s4u::LinkInRoute(out[own]), s4u::LinkInRoute(in[next])}, false);
  }
  zone->seal();
  for (int own = 0; own < ranks; ++own)
    s4u::Actor::create("rank" + std::to_string(own), hosts[own], rank, own, ranks, chunk);
  const auto begin = std::chrono::steady_clock::now();
  engine.run();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  std::printf("%.6f %d %.6f\n", 1e6 * s4u::Engine::get_clock(), 2 * (ranks - 1) * ranks, wall.count());
  return 0;
}
